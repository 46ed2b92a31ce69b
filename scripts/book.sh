#!/usr/bin/env bash
# Builds the book as web pages: the chapters of docs/book, the reference, and the other documents.
#
#   scripts/book.sh          writes target/book/index.html
#
# Fails when a link of a chapter leads to a file that does not exist.
set -euo pipefail
cd "$(dirname "$0")/.."

scripts/setup.sh book
source=target/book-source
rm -rf "$source" target/book
mkdir -p "$source"
cp -r docs "$source/docs"
cp README.md CHANGELOG.md CONTRIBUTING.md SECURITY.md RELEASING.md CODE_OF_CONDUCT.md "$source/"
# Links within the documents lead to the tree as well; only pages become chapters.
for linked in tests/cases tests/conformance; do
    mkdir -p "$source/$linked"
    cp "$linked"/README.md "$source/$linked/"
done

# The first heading of a document.
title() { sed -n 's/^# //p' "$1" | head -n 1; }
chapter() { printf '%s- [%s](%s)\n' "$2" "$(title "$source/$1")" "$1"; }
{
    printf '# Summary\n\n[Tidegate](README.md)\n\n# Book\n\n'
    # In the order of the book's own list.
    sed -n 's/^[0-9]*\. \[[^]]*\](\([a-z-]*\.md\)).*/\1/p' docs/book/README.md | while read -r page; do
        chapter "docs/book/$page" ''
    done
    printf '\n# Reference\n\n'
    chapter docs/reference/README.md ''
    for page in docs/reference/*.md; do
        [ "$page" = docs/reference/README.md ] || chapter "$page" '  '
    done
    printf '\n# More\n\n'
    for page in docs/{differences,directives,handlers,GLOSSARY,ARCHITECTURE}.md; do chapter "$page" ''; done
    for page in docs/decisions/*.md; do chapter "$page" '  '; done
    for page in CHANGELOG SECURITY CONTRIBUTING RELEASING; do chapter "$page.md" ''; done
} >"$source/SUMMARY.md"

cat >"$source/book.toml" <<'TOML'
[book]
title = "Tidegate"
language = "en"
src = "."

[build]
build-dir = "../book"
create-missing = false
# A page of the reference is named index.md.
use-default-preprocessors = false
TOML

# A chapter's links to other documents.
missing=0
while read -r page; do
    while read -r link; do
        if ! [ -e "$(dirname "$page")/$link" ]; then
            echo "book: $page: no file $link" >&2
            missing=1
        fi
    done < <(grep -o '](\([^)# ]*\.md\)' "$page" | sed 's/^](//' | grep -v '^https\?:' || true)
done < <(find docs -name '*.md')
[ $missing -eq 0 ]

target/tools/bin/mdbook build "$source"
echo "target/book/index.html: $(find target/book -name '*.html' | wc -l) pages"
