//! Paths whose changes a person must approve before they land.

/// Files that run with more rights than a session has: on a server's runners, or when somebody commits.
const PROTECTED: &[&str] = &[
    ".github/workflows/**",
    ".gitlab-ci.yml",
    ".forgejo/workflows/**",
    ".gitea/workflows/**",
    ".circleci/**",
    ".buildkite/**",
    "azure-pipelines.yml",
    "bitbucket-pipelines.yml",
    "Jenkinsfile",
    ".husky/**",
    ".githooks/**",
    ".pre-commit-config.yaml",
    "lefthook.yml",
];

pub(super) fn protected_by_default() -> Vec<String> {
    PROTECTED.iter().map(|&pattern| pattern.to_owned()).collect()
}

/// Whether git accepts the pattern for paths within the repository.
pub(super) fn is_path_pattern(pattern: &str) -> bool {
    let is_path = |part: &str| !matches!(part, "" | "." | "..");
    pattern.len() <= 1_000
        && !pattern.contains(char::is_control)
        && pattern.trim_end_matches('/').split('/').all(is_path)
}
