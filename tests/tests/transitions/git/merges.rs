//! Features of one repository that end together and are merged into one base branch.

use ralph_shared::ids::FeatureId;
use ralph_shared::kind::SessionKind;
use ralph_shared::wire::{Assignment, IntegrationEnd, MergeHow, WorkspaceOrder};
use ralph_tests::harness::{FeatureOptions, Repository, World};

use crate::invariants;
use crate::pool::Pool;
use crate::scene::turn;

struct Together<'a> {
    world: &'a World,
    pool: Pool<'a>,
    features: Vec<FeatureId>,
    _dir: tempfile::TempDir,
}

impl<'a> Together<'a> {
    /// Three features with one task each, whose merges wait in this order.
    async fn merging(world: &'a World, order: [usize; 3]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let repository = Repository::create(dir.path(), &[("a", "a")]).unwrap();
        let options = FeatureOptions {
            merge: Some(MergeHow::Merge),
            ..FeatureOptions::default()
        };
        let mut features = Vec::new();
        for name in ["f", "g", "h"] {
            let submitted = world
                .submit(name, Some(&repository), "- {key: a, title: A}", &options)
                .await;
            features.push(submitted.unwrap().0);
        }
        let together = Self {
            world,
            pool: Pool::join(world).await,
            features,
            _dir: dir,
        };
        let work = together.pool.claim(8).await;
        for of in &work {
            let text = format!("<task-done>{}</task-done>", of.task);
            let report = together.pool.session(of, turn(), &text, 1);
            together.pool.report(vec![report]).await;
        }
        let landing = together.pool.claim(8).await;
        assert_eq!((work.len(), landing.len()), (3, 3));
        for nth in order {
            let of = landing.iter().find(|of| of.feature == together.features[nth]);
            let merged = IntegrationEnd::Merged {
                commit: format!("{:040x}", nth + 1),
                empty: false,
            };
            together.ends(of.unwrap(), merged).await;
        }
        together
    }

    async fn ends(&self, of: &Assignment, end: IntegrationEnd) {
        self.pool.report(vec![self.pool.integration(of, end)]).await;
        invariants::check(&self.world.db).await.unwrap();
    }

    async fn is_delivered(&self, of: &Assignment) {
        let WorkspaceOrder::Git(git) = &of.workspace else {
            panic!("{of:?}")
        };
        let landed = git.landed.as_ref().map(|landed| landed.commit.clone());
        let commit = format!("{:040x}", 7);
        let empty = false;
        self.ends(
            of,
            IntegrationEnd::Delivered {
                commit,
                landed,
                empty,
            },
        )
        .await;
    }

    /// The merge whose turn it is; it must be the only one, however many slots are free.
    async fn next(&self, feature: usize) -> Assignment {
        let mut claimed = self.pool.claim(8).await;
        assert_eq!(claimed.len(), 1, "{claimed:?}");
        let of = claimed.remove(0);
        assert_eq!((of.kind, of.feature), (SessionKind::Git, self.features[feature]));
        of
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn merges_into_one_branch_take_turns_in_the_order_of_their_ends() {
    let world = World::calm().await.unwrap();
    let together = Together::merging(&world, [1, 0, 2]).await;
    let of = together.next(1).await;
    let put_off = "select count(*) from ready_tasks where not_before > now()";
    let put_off: i64 = sqlx::query_scalar(put_off).fetch_one(&world.db).await.unwrap();
    assert_eq!(put_off, 0, "no merge is delayed");
    assert!(
        together.pool.claim(8).await.is_empty(),
        "merges run one at a time"
    );
    together.is_delivered(&of).await;
    // A merge that the gate refuses leaves the queue and waits for a person.
    let of = together.next(0).await;
    let refused = IntegrationEnd::GateFailed {
        command: "make".to_owned(),
        output: "no".to_owned(),
    };
    together.ends(&of, refused).await;
    let of = together.next(2).await;
    together.is_delivered(&of).await;
    assert!(together.pool.claim(8).await.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_merge_that_has_to_wait_does_not_block_the_others() {
    let world = World::calm().await.unwrap();
    let together = Together::merging(&world, [0, 1, 2]).await;
    let of = together.next(0).await;
    let void = IntegrationEnd::Void {
        reason: "it moved".into(),
    };
    together.ends(&of, void).await;
    let paused = "update ready_tasks set not_before = now() + interval '1 hour' where feature_id = $1";
    sqlx::query(paused)
        .bind(together.features[0].0)
        .execute(&world.db)
        .await
        .unwrap();
    for feature in [1, 2] {
        let of = together.next(feature).await;
        together.is_delivered(&of).await;
    }
    sqlx::query("update ready_tasks set not_before = now()")
        .execute(&world.db)
        .await
        .unwrap();
    let of = together.next(0).await;
    together.is_delivered(&of).await;
}
