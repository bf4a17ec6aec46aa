//! The generated pages of `docs/` say what the code says. `./verify fix` (that is `WRITE_REFERENCE=1`) writes them.

use std::fs;
use std::path::Path;

#[test]
fn the_reference_is_what_the_code_says() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    for page in tidemill::reference::pages() {
        let path = root.join(page.path);
        if std::env::var_os("WRITE_REFERENCE").is_some() {
            fs::write(&path, &page.text).unwrap_or_else(|error| panic!("{}: {error}", page.path));
        }
        let found = fs::read_to_string(&path).unwrap_or_default();
        assert_eq!(found, page.text, "{} is not what the code says: run `./verify fix`", page.path);
    }
}
