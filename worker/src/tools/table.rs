//! The known tools. To add one, add a row.

/// A tool, and how a process with a private HOME uses the user's installation.
#[derive(Debug, PartialEq, Eq)]
pub struct Tool {
    pub name: &'static str,
    /// Variables of the user with its folder, and a path below their value. The first one that is set counts.
    pub variables: &'static [(&'static str, &'static str)],
    /// Its default folders, below the user's home. The first existing one counts.
    pub folders: &'static [&'static str],
    /// Readable paths in its folder. Empty means all. Paths that may contain credentials are left out.
    pub open: &'static [&'static str],
    pub sets: &'static [Set],
    /// Variables of the user to pass on, unless they contain a login. Paths among them may be read.
    pub passes: &'static [&'static str],
    /// Settings below the user's home to copy to the same path of the private home, without lines that
    /// contain secrets.
    pub settings: &'static [&'static str],
    /// Folders whose entries are linked in the private home.
    pub links: &'static [Links],
}

/// A variable that makes a tool find its folder.
#[derive(Debug, PartialEq, Eq)]
pub struct Set {
    pub variable: &'static str,
    /// Its value: `{}` stands for the tool's folder, `{own}` for the value in the user's environment.
    pub value: &'static str,
    /// Value of `{own}` if the user's environment has none.
    pub default: &'static str,
    /// A path that must exist in the tool's folder.
    pub needs: &'static str,
}

/// Links in the private home to read-only entries: the tool finds them at the usual path and adds others
/// beside them.
#[derive(Debug, PartialEq, Eq)]
pub struct Links {
    /// The folder, below the tool's folder.
    pub from: &'static str,
    /// The folder, below the private home.
    pub to: &'static str,
    /// How many levels of folders belong to the private home itself; their contents are linked. [`u32::MAX`]
    /// copies everything.
    pub levels: u32,
    /// The checkout's lock file: only the packages it names are shared, and none without it. Empty means all.
    pub lock: &'static str,
}

const NONE: Tool = Tool {
    name: "",
    variables: &[],
    folders: &[],
    open: &[],
    sets: &[],
    passes: &[],
    settings: &[],
    links: &[],
};

const fn set(variable: &'static str, value: &'static str) -> Set {
    Set {
        variable,
        value,
        default: "",
        needs: "",
    }
}

pub const TOOLS: &[Tool] = &[
    Tool {
        name: "rustup",
        variables: &[("RUSTUP_HOME", "")],
        folders: &[".rustup"],
        sets: &[set("RUSTUP_HOME", "{}")],
        passes: &["RUSTUP_TOOLCHAIN"],
        ..NONE
    },
    Tool {
        name: "cargo",
        variables: &[("CARGO_HOME", "")],
        folders: &[".cargo"],
        open: &["bin", "env", "registry"],
        settings: &[".cargo/config.toml", ".cargo/config"],
        links: &[
            // Its files are small, and tools rewrite them when they learn of newer versions.
            Links {
                from: "registry/index",
                to: ".cargo/registry/index",
                levels: u32::MAX,
                lock: "Cargo.lock",
            },
            Links {
                from: "registry/cache",
                to: ".cargo/registry/cache",
                levels: 1,
                lock: "Cargo.lock",
            },
            Links {
                from: "registry/src",
                to: ".cargo/registry/src",
                levels: 1,
                lock: "Cargo.lock",
            },
        ],
        ..NONE
    },
    Tool {
        name: "nvm",
        variables: &[("NVM_DIR", "")],
        folders: &[".nvm", ".config/nvm"],
        sets: &[set("NVM_DIR", "{}")],
        passes: &["NVM_BIN", "NVM_INC"],
        ..NONE
    },
    Tool {
        name: "fnm",
        variables: &[("FNM_DIR", "")],
        folders: &[".local/share/fnm", ".fnm"],
        sets: &[set("FNM_DIR", "{}")],
        ..NONE
    },
    Tool {
        name: "volta",
        variables: &[("VOLTA_HOME", "")],
        folders: &[".volta"],
        sets: &[set("VOLTA_HOME", "{}")],
        ..NONE
    },
    Tool {
        name: "asdf",
        variables: &[("ASDF_DATA_DIR", "")],
        folders: &[".asdf"],
        sets: &[set("ASDF_DATA_DIR", "{}")],
        passes: &["ASDF_DIR"],
        settings: &[".tool-versions", ".asdfrc"],
        ..NONE
    },
    Tool {
        name: "mise",
        variables: &[("MISE_DATA_DIR", "")],
        folders: &[".local/share/mise"],
        sets: &[set("MISE_DATA_DIR", "{}")],
        settings: &[".config/mise/config.toml", ".tool-versions"],
        ..NONE
    },
    Tool {
        name: "pyenv",
        variables: &[("PYENV_ROOT", "")],
        folders: &[".pyenv"],
        sets: &[set("PYENV_ROOT", "{}")],
        passes: &["PYENV_VERSION"],
        ..NONE
    },
    Tool {
        name: "rbenv",
        variables: &[("RBENV_ROOT", "")],
        folders: &[".rbenv"],
        sets: &[set("RBENV_ROOT", "{}")],
        passes: &["RBENV_VERSION"],
        ..NONE
    },
    Tool {
        name: "sdkman",
        variables: &[("SDKMAN_DIR", "")],
        folders: &[".sdkman"],
        sets: &[set("SDKMAN_DIR", "{}")],
        ..NONE
    },
    Tool {
        name: "conda",
        variables: &[("CONDA_ROOT", ""), ("MAMBA_ROOT_PREFIX", "")],
        folders: &[
            "miniconda3",
            "anaconda3",
            "miniforge3",
            "mambaforge",
            "micromamba",
            ".local/share/mamba",
        ],
        open: &[
            "bin",
            "compiler_compat",
            "conda-meta",
            "condabin",
            "envs",
            "etc",
            "include",
            "lib",
            "libexec",
            "pkgs",
            "plugins",
            "python",
            "share",
            "shell",
            "ssl",
        ],
        passes: &[
            "CONDA_PREFIX",
            "CONDA_DEFAULT_ENV",
            "CONDA_EXE",
            "CONDA_PYTHON_EXE",
        ],
        ..NONE
    },
    Tool {
        name: "poetry",
        variables: &[("POETRY_HOME", "")],
        folders: &[".local/share/pypoetry"],
        ..NONE
    },
    Tool {
        name: "pipx",
        variables: &[("PIPX_HOME", "")],
        folders: &[".local/share/pipx", ".local/pipx"],
        ..NONE
    },
    Tool {
        name: "uv",
        variables: &[("UV_TOOL_DIR", "")],
        folders: &[".local/share/uv/tools"],
        settings: &[".config/uv/uv.toml"],
        ..NONE
    },
    Tool {
        name: "uv python",
        variables: &[("UV_PYTHON_INSTALL_DIR", "")],
        folders: &[".local/share/uv/python"],
        links: &[Links {
            from: "",
            to: ".local/share/uv/python",
            levels: 0,
            lock: "",
        }],
        ..NONE
    },
    Tool {
        name: "pip",
        settings: &[".config/pip/pip.conf", ".pip/pip.conf"],
        ..NONE
    },
    Tool {
        name: "npm",
        variables: &[("npm_config_cache", "")],
        folders: &[".npm"],
        open: &["_cacache/content-v2"],
        settings: &[".npmrc"],
        ..NONE
    },
    Tool {
        name: "pnpm",
        variables: &[("PNPM_HOME", "")],
        folders: &[".local/share/pnpm"],
        ..NONE
    },
    Tool {
        name: "bun",
        variables: &[("BUN_INSTALL", "")],
        folders: &[".bun"],
        open: &["bin", "install/global"],
        ..NONE
    },
    Tool {
        name: "deno",
        variables: &[("DENO_INSTALL", "")],
        folders: &[".deno"],
        open: &["bin"],
        ..NONE
    },
    Tool {
        name: "go",
        variables: &[("GOMODCACHE", ""), ("GOPATH", "pkg/mod")],
        folders: &["go/pkg/mod"],
        sets: &[Set {
            needs: "cache/download",
            default: "https://proxy.golang.org,direct",
            ..set("GOPROXY", "file://{}/cache/download,{own}")
        }],
        passes: &[
            "GOROOT",
            "GOTOOLCHAIN",
            "GONOSUMDB",
            "GONOPROXY",
            "GOPRIVATE",
            "GOSUMDB",
        ],
        settings: &[".config/go/env"],
        ..NONE
    },
    Tool {
        name: "java",
        passes: &["JAVA_HOME"],
        ..NONE
    },
    Tool {
        name: "gradle",
        variables: &[("GRADLE_USER_HOME", "")],
        folders: &[".gradle"],
        open: &["caches/modules-2", "wrapper/dists", "jdks"],
        sets: &[Set {
            needs: "caches/modules-2",
            ..set("GRADLE_RO_DEP_CACHE", "{}/caches")
        }],
        passes: &["GRADLE_HOME"],
        links: &[Links {
            from: "wrapper/dists",
            to: ".gradle/wrapper/dists",
            levels: 2,
            lock: "",
        }],
        ..NONE
    },
    Tool {
        name: "maven",
        folders: &[".m2"],
        open: &["repository", "wrapper"],
        sets: &[Set {
            needs: "repository",
            ..set("MAVEN_ARGS", "-Dmaven.repo.local.tail={}/repository {own}")
        }],
        passes: &["MAVEN_HOME", "M2_HOME"],
        ..NONE
    },
    Tool {
        name: "dotnet",
        variables: &[("DOTNET_ROOT", "")],
        folders: &[".dotnet"],
        sets: &[set("DOTNET_ROOT", "{}")],
        ..NONE
    },
    Tool {
        name: "nuget",
        variables: &[("NUGET_PACKAGES", "")],
        folders: &[".nuget/packages"],
        sets: &[set("NUGET_FALLBACK_PACKAGES", "{}")],
        ..NONE
    },
    Tool {
        name: "composer",
        variables: &[("COMPOSER_HOME", "")],
        folders: &[".config/composer", ".composer"],
        open: &["vendor"],
        ..NONE
    },
    Tool {
        name: "composer's downloads",
        variables: &[("COMPOSER_CACHE_DIR", "")],
        folders: &[".cache/composer"],
        sets: &[
            set("COMPOSER_CACHE_DIR", "{}"),
            set("COMPOSER_CACHE_READ_ONLY", "1"),
        ],
        ..NONE
    },
];
