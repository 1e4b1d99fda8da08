//! Sends requests to the JetStream API, which fail as soon as the broker refuses them.

use futures::future::BoxFuture;

use crate::{Bus, BusError};

impl Bus {
    /// Sends a request to the JetStream API, such as `STREAM.INFO` about one stream. Fails as soon as the broker refuses
    /// it or the connection is lost.
    pub(crate) async fn request_jetstream<T>(
        &self,
        verb: &str,
        about: &str,
        request: BoxFuture<'_, T>,
    ) -> Result<T, BusError> {
        let subject = format!("$JS.API.{verb}.{about}");
        self.violations.forget_subject(&subject);
        let connection = self.losses.watch();
        let answer = connection.unless_lost(self.unless_refused(&subject, request)).await;
        answer.unwrap_or_else(|lost| Err(BusError::unavailable(format!("{verb} {about}"), lost)))
    }

    /// Waits for the response to a message sent to `subject`, and fails as soon as the broker refuses
    /// messages to that subject. The sender must call [`PermissionViolations::forget_subject`](crate::permission_violations::PermissionViolations::forget_subject) first, because
    /// permissions may have been granted since an earlier refusal.
    pub(crate) async fn unless_refused<T>(
        &self,
        subject: &str,
        answer: BoxFuture<'_, T>,
    ) -> Result<T, BusError> {
        tokio::select! {
            // Check the response first: a response that has arrived takes precedence over a violation that
            // another request caused.
            biased;
            answer = answer => Ok(answer),
            () = self.violations.wait_for_refusal(subject) => {
                Err(BusError::Refused { user: self.user.clone(), subject: subject.to_owned() })
            }
            () = self.violations.wait_for_inbox_refusal(&self.inbox_prefix) => Err(self.inbox_error()),
        }
    }
}
