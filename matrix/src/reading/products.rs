//! `Products` documents.

use super::{Contents, Reader};
use crate::{
    product::{Product, ProductEntry, ProductsHead, Vendor},
    tree::Node,
    version::VersionScheme,
};

pub(super) fn read(mut root: Node, reader: &mut Reader<'_>, contents: &mut Contents) {
    let entries = reader.rows(&mut root, "products");
    let head = reader.decode::<ProductsHead>(&root);
    let vendor = root.text("vendor").unwrap_or_default().to_owned();
    let evidence = head.as_ref().map(|head| head.evidence.clone()).unwrap_or_default();
    if let Some(head) = head {
        if let Some(first) = contents.vendors.get(&head.vendor) {
            let row = first.row.clone();
            reader.twice(&root, &format!("the vendor `{}`", head.vendor), &row);
        }
        let row = reader.row(&root);
        contents.vendors.insert(head.vendor.clone(), vendor_of(head, row));
    }
    for node in entries {
        let Some(entry) = reader.decode::<ProductEntry>(&node) else {
            continue;
        };
        if let Some(first) = contents.products.get(&entry.id) {
            let row = first.row.clone();
            reader.twice(&node, &format!("the product `{}`", entry.id), &row);
            continue;
        }
        let product = Product {
            name: entry.name.unwrap_or_else(|| entry.id.clone()),
            vendor: vendor.clone(),
            variant: entry.variant,
            groups: entry.groups,
            matches: entry.matches,
            memory_mib: entry.memory_mib.0,
            unit: entry.unit,
            formats: entry.formats,
            no_formats: entry.no_formats,
            compute: entry.compute,
            partitions_mib: entry.partitions_mib,
            evidence: entry.evidence.over(&evidence),
            note: entry.note,
            row: reader.row(&node),
            id: entry.id,
        };
        contents.products.insert(product.id.clone(), product);
    }
}

fn vendor_of(head: ProductsHead, row: crate::RowReference) -> Vendor {
    Vendor {
        name: head.name.unwrap_or_else(|| head.vendor.clone()),
        pci_vendors: head.pci_vendor.0,
        stacks: head.stacks,
        driver_scheme: head.driver_scheme.unwrap_or(VersionScheme::Dotted),
        dra: head.dra,
        labels: head.labels,
        annotations: head.annotations,
        resources: head.resources,
        prefixes: head.prefixes,
        suffixes: head.suffixes,
        inject: head.inject,
        row,
        id: head.vendor,
    }
}
