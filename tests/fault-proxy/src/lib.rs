//! A proxy in front of a registry or hub that injects scripted faults.
