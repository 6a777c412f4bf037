//! The Kubernetes types of Plimsoll and its vocabulary of conditions and reasons.
