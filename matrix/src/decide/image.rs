//! Which image of a build runs on a pool.

use crate::{
    build::{Build, Image},
    decide::candidate::Look,
    product::Product,
    reason::ReasonKind,
    words::Words,
};

impl<'run> Look<'_, 'run> {
    pub(super) fn image(&mut self, product: &Product) -> Option<Image> {
        let build = self.build;
        if build.images.is_empty() {
            self.against_build(ReasonKind::NoImage {});
            return None;
        }
        let Some(images) = images_for(build, product) else {
            let serves = build.images.keys().cloned().collect();
            self.against_build(ReasonKind::ProductNotServed {
                product: product.id.clone(),
                serves,
            });
            return None;
        };
        let image = self.image_for_architecture(images)?;
        if !self.evaluation.request.policy.pull.contains(&image.pull) {
            self.against_build(ReasonKind::PullNotAllowed {
                pull: image.pull.word().to_owned(),
            });
        }
        Some(image.clone())
    }

    fn image_for_architecture(&mut self, images: &'run [Image]) -> Option<&'run Image> {
        let Some(node) = self.pool.architecture.clone() else {
            let row = self.build.row.clone();
            self.caveat(ReasonKind::CpuArchitectureUnknown { of: "node".to_owned() }, &row);
            return images.first();
        };
        let stated = images
            .iter()
            .find(|image| matches!(&image.architectures, Words::These(list) if list.contains(&node)));
        if stated.is_some() {
            return stated;
        }
        let open = images
            .iter()
            .find(|image| matches!(image.architectures, Words::Any | Words::Unset));
        if let Some(image) = open {
            if image.architectures.is_unset() {
                let row = self.build.row.clone();
                self.caveat(ReasonKind::CpuArchitectureUnknown { of: "image".to_owned() }, &row);
            }
            Some(image)
        } else {
            let image = images
                .iter()
                .flat_map(|image| image.architectures.list().to_vec())
                .collect();
            self.against_build(ReasonKind::CpuArchitecture { node, image });
            images.first()
        }
    }
}

/// Images for a product: by its id, variant, groups, then vendor.
pub(crate) fn images_for<'build>(build: &'build Build, product: &Product) -> Option<&'build [Image]> {
    let words = [Some(&product.id), product.variant.as_ref()];
    let words = words
        .into_iter()
        .flatten()
        .chain(&product.groups)
        .chain(std::iter::once(&product.vendor));
    words
        .filter_map(|word| build.images.get(word))
        .map(Vec::as_slice)
        .find(|images| !images.is_empty())
}
