//! A client of the OCI distribution specification: manifests, blobs, ranges, resumable uploads, mirrors.
