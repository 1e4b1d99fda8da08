use std::sync::Mutex;

use futures::FutureExt;
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::*;

const INTERVAL: Duration = Duration::from_secs(2);

/// What one pass of a script does.
enum Step {
    Finds(usize),
    Fails,
    Panics,
}

/// A sweep that follows a script and reports when each pass began, in seconds since the start of the test. A
/// pass after the end of the script stops the loop and finds nothing.
struct ScriptedSweep {
    steps: Mutex<Vec<Step>>,
    began: Instant,
    passes: mpsc::UnboundedSender<u64>,
    stop: CancellationToken,
}

impl ScriptedSweep {
    fn new(steps: impl IntoIterator<Item = Step>) -> (Arc<Self>, mpsc::UnboundedReceiver<u64>) {
        let (passes, received) = mpsc::unbounded_channel();
        let mut steps: Vec<Step> = steps.into_iter().collect();
        steps.reverse();
        let (began, stop) = (Instant::now(), CancellationToken::new());
        (Arc::new(Self { steps: Mutex::new(steps), began, passes, stop }), received)
    }
}

#[async_trait]
impl Sweep for ScriptedSweep {
    async fn sweep(&self) -> Result<usize, StoreError> {
        self.passes.send(self.began.elapsed().as_secs()).expect("the test receives");
        let step = self.steps.lock().unwrap().pop();
        match step {
            Some(Step::Finds(items)) => Ok(items),
            Some(Step::Fails) => Err(StoreError::Unavailable("refused".to_owned())),
            Some(Step::Panics) => panic!("meant by the test"),
            None => {
                self.stop.cancel();
                Ok(0)
            }
        }
    }
}

/// Collects the passes that were reported so far.
fn drain(passes: &mut mpsc::UnboundedReceiver<u64>) -> Vec<u64> {
    std::iter::from_fn(|| passes.try_recv().ok()).collect()
}

#[tokio::test(start_paused = true)]
async fn a_sweep_waits_before_each_pass_and_survives_errors_and_panics() {
    let (sweep, mut passes) = ScriptedSweep::new([Step::Finds(3), Step::Panics, Step::Fails, Step::Finds(0)]);
    let stop = sweep.stop.clone();
    run_sweep("tests", sweep, INTERVAL, stop).await;
    assert_eq!(drain(&mut passes), [2, 4, 6, 8, 10]);
}

#[tokio::test(start_paused = true)]
async fn a_stopped_sweep_ends_at_once_and_begins_no_pass() {
    let (sweep, mut passes) = ScriptedSweep::new([Step::Finds(1)]);
    let stop = sweep.stop.clone();
    stop.cancel();
    run_sweep("tests", sweep.clone(), INTERVAL, stop).await;
    assert!(drain(&mut passes).is_empty());
    assert_eq!(sweep.began.elapsed(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn a_woken_loop_runs_while_there_is_work_and_waits_after_an_error() {
    let steps = [Step::Finds(1), Step::Finds(1), Step::Finds(0), Step::Fails, Step::Finds(1), Step::Panics];
    let (sweep, mut passes) = ScriptedSweep::new(steps);
    let wake = Notify::new();
    let work = PassLoop::new("the work".to_owned(), INTERVAL, sweep.stop.clone()).woken_by(&wake);
    work.run(|| sweep.sweep()).await;
    assert_eq!(drain(&mut passes), [0, 0, 0, 2, 4, 4, 6]);
}

#[tokio::test(start_paused = true)]
async fn a_notification_starts_a_pass_before_the_interval_ends() {
    let (sweep, mut passes) = ScriptedSweep::new([Step::Finds(0)]);
    let wake = Notify::new();
    // The permit is stored, so a notification between two passes is not lost.
    wake.notify_one();
    let work = PassLoop::new("the work".to_owned(), INTERVAL, sweep.stop.clone()).woken_by(&wake);
    work.run(|| sweep.sweep()).await;
    assert_eq!(drain(&mut passes), [0, 0]);
}

#[test]
fn a_failed_item_is_logged_and_only_an_unavailable_database_ends_the_sweep() {
    let damaged = || StoreError::Damaged { place: "runs 7".to_owned(), problem: "no JSON".to_owned() };
    let logged = Mutex::new(Vec::new());
    let process = |step: Step| {
        let work = async {
            match step {
                Step::Finds(items) => Ok(items),
                Step::Fails => Err(damaged()),
                Step::Panics => panic!("meant by the test"),
            }
        };
        let log = |problem: &dyn Display| logged.lock().unwrap().push(problem.to_string());
        process_item(work, log).now_or_never().expect("nothing waits")
    };
    assert_eq!(process(Step::Finds(1)).unwrap(), Some(1));
    assert_eq!(process(Step::Fails).unwrap(), None);
    assert_eq!(process(Step::Panics).unwrap(), None);
    let expected = [damaged().to_string(), "it panicked; the process's log has the place".to_owned()];
    assert_eq!(*logged.lock().unwrap(), expected);

    let undecided = async { Err::<(), _>(StoreError::Undecided { attempts: 3 }) };
    let log = |problem: &dyn Display| logged.lock().unwrap().push(problem.to_string());
    assert_eq!(process_item(undecided, log).now_or_never().expect("nothing waits").unwrap(), None);
    assert_eq!(logged.lock().unwrap().len(), expected.len(), "the next sweep decides, so nothing failed");

    let away = async { Err::<(), _>(StoreError::Unavailable("refused".to_owned())) };
    let log = |problem: &dyn Display| logged.lock().unwrap().push(problem.to_string());
    assert!(matches!(process_item(away, log).now_or_never(), Some(Err(StoreError::Unavailable(_)))));
    assert_eq!(logged.lock().unwrap().len(), expected.len(), "it concerns every item, so the caller logs it");
}
