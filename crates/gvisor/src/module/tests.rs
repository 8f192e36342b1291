use std::collections::BTreeMap;

use super::*;

/// A `go` that does as the real one, without a network: it notes its arguments and environment, states a version, and
/// downloads and builds what a script can. `$VERSION` and `$SUM` stand in the script.
const GO: &str = r#"#!/bin/sh
here=$(dirname "$0")
echo "$*" >>"$here/calls"
case "$1 $2" in
  "env -json")
    printf '{"GOVERSION":"%s","GOPROXY":"https://proxy.example","GOSUMDB":"%s"}' "$VERSION" "${GOSUMDB:-sum.golang.org}" ;;
  "mod download")
    env >"$here/environment"
    dir=$GOMODCACHE/$4
    mkdir -p "$dir/bin" "$dir/pkg/tool/linux"
    cp "$here/fetched" "$dir/bin/go"
    : >"$dir/pkg/tool/linux/link"
    case "$4" in
      golang.org/toolchain@*) printf '{"Sum":"h1:LdHRR8AtYKtOQrWMnd5AbvhZMSVJ7HoO2wrqShPaLV8=","Dir":"%s"}' "$dir" ;;
      *) printf '{"Sum":"$SUM","Dir":"%s"}' "$dir" ;;
    esac ;;
  "install -trimpath") mkdir -p "$GOBIN"; printf '%s' "$4" >"$GOBIN/runsc" ;;
  *) echo "what is $*" >&2; exit 2 ;;
esac
"#;

/// The pinned checksum of the module.
const SUM: &str = "h1:AU5+CtCvnBnxdZRNcZt1NfSLqgkXZVT3N/u6u1aXg44=";

struct Host {
    folder: tempfile::TempDir,
    variables: BTreeMap<OsString, OsString>,
}

impl Host {
    fn new(version: &str, sum: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let script = GO.replace("\"$VERSION\"", version).replace("$SUM", sum);
        for name in ["go", "fetched"] {
            let path = folder.path().join(name);
            fs::write(&path, &script).unwrap();
            fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        }
        let path = format!("{}:/usr/bin:/bin", folder.path().display());
        let variables = BTreeMap::from([("PATH".into(), path.into())]);
        Self { folder, variables }
    }

    fn build(&self) -> Result<PathBuf, ModuleError> {
        let staging = self.folder.path().join("staging");
        fs::create_dir_all(&staging).unwrap();
        build(
            &ModulePins::built_in().unwrap(),
            Arch::X86_64,
            &staging,
            &self.variables,
            &mut |_| (),
        )
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.folder.path().join(name)).unwrap_or_default()
    }
}

#[test]
fn the_pinned_version_is_built_and_states_itself() {
    let host = Host::new("go1.26.8", SUM);
    let bin = host.build().unwrap();
    let flags = fs::read_to_string(bin.join("runsc")).unwrap();
    assert_eq!(
        flags,
        "-s -w -X gvisor.dev/gvisor/runsc/version.version=v0.0.0-20260905035102-160fafc42237"
    );
    let calls = host.read("calls");
    assert!(
        calls.ends_with("gvisor.dev/gvisor/runsc@v0.0.0-20260905035102-160fafc42237\n"),
        "{calls}"
    );
    assert!(!calls.contains("toolchain"), "{calls}");
}

#[test]
fn another_checksum_builds_nothing() {
    let other = "h1:BU5+CtCvnBnxdZRNcZt1NfSLqgkXZVT3N/u6u1aXg44=";
    for sum in [other, ""] {
        let host = Host::new("go1.26.8", sum);
        let error = host.build().unwrap_err();
        assert!(matches!(error, ModuleError::Sum { .. }), "{error}");
        assert!(!host.read("calls").contains("install"), "{}", host.read("calls"));
    }
}

#[test]
fn an_older_go_fetches_the_one_that_is_needed_and_builds_with_it() {
    for version in ["go1.19.8", "go1.26.2", "devel"] {
        let host = Host::new(version, SUM);
        host.build().unwrap();
        assert!(
            host.read("calls")
                .contains("golang.org/toolchain@v0.0.1-go1.26.3.linux-amd64")
        );
        assert!(!host.read("calls").contains("install"), "the old one has built");
        let toolchain = "staging/go/modules/golang.org/toolchain@v0.0.1-go1.26.3.linux-amd64";
        assert!(host.read(&format!("{toolchain}/bin/calls")).contains("install"));
        let tool = fs::metadata(host.folder.path().join(toolchain).join("pkg/tool/linux/link")).unwrap();
        assert_eq!(tool.permissions().mode() & 0o111, 0o111);
    }
}

#[test]
fn no_setting_of_the_operators_reaches_the_build_but_where_the_network_is() {
    let mut host = Host::new("go1.26.8", SUM);
    for (name, value) in [
        ("GOFLAGS", "-toolexec=/bin/evil"),
        ("GOPRIVATE", "*"),
        ("GONOSUMDB", "*"),
        ("GOINSECURE", "*"),
        ("CGO_ENABLED", "1"),
        ("AWS_SECRET_ACCESS_KEY", "s3cret"),
        ("https_proxy", "http://proxy.example:3128"),
    ] {
        host.variables.insert(name.into(), value.into());
    }
    host.build().unwrap();
    let environment = host.read("environment");
    let has = |line: &str| environment.lines().any(|one| one == line);
    assert!(
        has("https_proxy=http://proxy.example:3128") && has("GOPROXY=https://proxy.example"),
        "{environment}"
    );
    assert!(
        has("GOSUMDB=sum.golang.org") && has("GOFLAGS=-modcacherw") && has("GOPRIVATE="),
        "{environment}"
    );
    for gone in ["evil", "s3cret", "GONOSUMDB=*", "GOINSECURE=*", "CGO_ENABLED=1"] {
        assert!(!environment.contains(gone), "{gone}: {environment}");
    }
}

#[test]
fn without_checksums_nothing_is_fetched() {
    let mut host = Host::new("go1.26.8", SUM);
    host.variables.insert("GOSUMDB".into(), "off".into());
    assert!(matches!(host.build(), Err(ModuleError::NoChecksums)));
    assert!(!host.read("calls").contains("download"));
}

#[test]
fn a_host_without_go_is_told_what_to_install() {
    let none = BTreeMap::from([(OsString::from("PATH"), OsString::from("/nonexistent:relative"))]);
    let error = find_go(&none, &["/nonexistent"]).err().unwrap().to_string();
    assert!(error.contains("golang-1.19-go"), "{error}");
}
