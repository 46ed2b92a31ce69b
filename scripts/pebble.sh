# Pebble (github.com/letsencrypt/pebble), a test server for ACME, for the scripts that test with it.

pebble_version=v2.10.1

# Installs programs of it into a directory by Go, where they are not there: the directory, then the programs.
ensure_pebble() {
    local into=$1 program
    shift
    for program in "$@"; do
        [ -x "$into/$program" ] || GOBIN=$into go install "github.com/letsencrypt/pebble/v2/cmd/$program@$pebble_version"
    done
}
