//! Programs of a test or the demo that run beside the bed and end with it: a stand-in hub, a proxy, a controller.

use std::process::Command;

use crate::bed::Bed;
use crate::error::Error;
use crate::rings::launch;

impl Bed {
    /// Starts a program that ends when the bed goes down, with its own log, and waits until `is_ready`.
    /// A program of the same name that was started before is replaced.
    pub fn start_beside(&self, name: &str, command: &mut Command, is_ready: impl FnMut() -> bool) -> Result<(), Error> {
        self.stop_beside(name)?;
        launch(self, name, command)?.wait_until(is_ready)
    }

    /// Starts a program that ends when the bed goes down, and does not wait for anything.
    pub fn start_unwatched(&self, name: &str, command: &mut Command) -> Result<(), Error> {
        launch(self, name, command).map(drop)
    }

    /// Ends a program that was started beside the bed.
    pub fn stop_beside(&self, name: &str) -> Result<(), Error> {
        let components = self.snapshot().components;
        let Some(component) = components.iter().find(|component| component.name == name) else {
            return Ok(());
        };
        component.process.stop(std::time::Duration::from_secs(10));
        self.change(|state| state.components.retain(|other| other.name != name))
    }
}
