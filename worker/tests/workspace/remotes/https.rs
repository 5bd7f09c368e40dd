//! A server with a certificate that only the user's git trusts, and a login that only the user's helper
//! knows.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use ralph_git_server::{Authority, GitServer, Login};
use ralph_shared::wire::{IntegrationEnd, WorkspaceOrder};
use ralph_worker::workspace::CommitMessage;

use crate::remote::{FEATURE, Remote, integrate_order};
use crate::user::User;

const PASSWORD: &str = "s3cret-of-ann";

struct Scene {
    user: User,
    authority: Authority,
    server: GitServer,
    remote: Remote,
}

impl Scene {
    /// `None` in the parent process, which only runs `test` again as a user.
    async fn of(test: &str) -> Option<Self> {
        let user = User::or_run_as_one(&format!("remotes::https::{test}"))?;
        let authority = Authority::new().unwrap();
        let mut remote = Remote::new();
        let certificate = authority.certify("localhost", false).unwrap();
        let login = Login::new("ann", PASSWORD);
        let server = GitServer::start_with(remote.dir.path(), login, Some(certificate)).await;
        let server = server.unwrap();
        remote.address = Some(server.url("repo.git"));
        let scene = Self {
            user,
            authority,
            server,
            remote,
        };
        scene.trust(true);
        Some(scene)
    }

    /// Sets whether the user's git trusts the authority.
    fn trust(&self, trusted: bool) {
        let user = &self.user;
        let script =
            format!("#!/bin/sh\n[ \"$1\" = get ] && printf 'username=ann\\npassword={PASSWORD}\\n'\n");
        let helper = user.write("helper", &script);
        fs::set_permissions(&helper, fs::Permissions::from_mode(0o755)).unwrap();
        let authority = user.write("authority.pem", self.authority.pem());
        let mut config = format!("[credential]\n\thelper = {}\n", helper.display());
        if trusted {
            config.push_str(&format!("[http]\n\tsslCAInfo = {}\n", authority.display()));
        }
        user.write(".gitconfig", &config);
    }
}

#[tokio::test]
async fn the_users_certificate_authority_and_helper_are_used() {
    let Some(scene) = Scene::of("the_users_certificate_authority_and_helper_are_used").await else {
        return;
    };
    let remote = &scene.remote;
    scene.trust(false);
    let workspaces = remote.workspaces().await;
    let order = WorkspaceOrder::Git(remote.order("t-1", "t-1"));
    let refused = workspaces.prepare("t-1", &order).await.unwrap_err();
    let message = refused.to_string();
    assert!(
        message.contains("the server's certificate could not be verified"),
        "{message}"
    );
    assert!(
        message.contains("sslCAInfo") && !refused.retry_can_help(),
        "{message}"
    );

    scene.trust(true);
    let commit = remote.attempt(&workspaces, "t-1", "new.txt", "new\n").await;
    let order = integrate_order("t-1", &commit);
    let ended = remote.integrate(&workspaces, "t-1", "i-1", &order).await;
    assert!(matches!(ended, IntegrationEnd::Merged { .. }), "{ended:?}");
    assert_eq!(remote.git(&["show", &format!("{FEATURE}:new.txt")]), "new");
}

#[tokio::test]
async fn an_untrusted_certificate_loses_no_work() {
    let Some(mut scene) = Scene::of("an_untrusted_certificate_loses_no_work").await else {
        return;
    };
    let workspaces = scene.remote.workspaces().await;
    let stranger = Authority::new().unwrap();
    let bad = [
        ("over", scene.authority.certify("localhost", true).unwrap()),
        ("other", scene.authority.certify("other.example", false).unwrap()),
        ("stranger", stranger.certify("localhost", false).unwrap()),
    ];
    for (task, certificate) in bad {
        let workspace = scene.remote.prepare(&workspaces, task).await;
        fs::write(workspace.path().join("new.txt"), "new\n").unwrap();
        scene.server.show(certificate);
        scene.server.come_back().await.unwrap();
        let snapshot = workspace.finish(&CommitMessage::default()).await;
        let message = snapshot.push_error.unwrap_or_default();
        assert!(
            message.contains("the server's certificate could not be verified"),
            "{task}: {message}"
        );
        assert!(!message.contains(PASSWORD), "{task}: {message}");
        assert!(snapshot.commit.is_some() && snapshot.pushed_ref.is_none());
        drop(workspace);

        scene
            .server
            .show(scene.authority.certify("localhost", false).unwrap());
        scene.server.come_back().await.unwrap();
        let rescued = workspaces.rescue_unpushed(&CommitMessage::default()).await;
        assert_eq!(rescued.len(), 1, "{task}");
        let order = scene.remote.order(task, task);
        assert_eq!(
            scene.remote.head(&order.attempt_ref),
            snapshot.commit,
            "{task}: {rescued:?}"
        );
    }
}
