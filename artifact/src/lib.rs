//! What a packed model is: media types, annotations, manifests, layouts.
