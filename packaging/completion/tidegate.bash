# Completion of tidegate's command line for bash.

_tidegate() {
    local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]}
    case $before in
        -s) mapfile -t COMPREPLY < <(compgen -W 'stop quit reopen reload' -- "$word") ;;
        -p | --conf-prefix) mapfile -t COMPREPLY < <(compgen -d -- "$word") ;;
        -c | -e | --conf | --socket) mapfile -t COMPREPLY < <(compgen -f -- "$word") ;;
        help) mapfile -t COMPREPLY < <(compgen -W "$(tidegate help 2>/dev/null | grep -oE '\b[a-z][a-z0-9_]{2,}\b')" -- "$word") ;;
        -g) ;;
        *)
            local words='-h -v -V -t -T -q -s -p -e -c -g'
            [ "$COMP_CWORD" -ne 1 ] || words+=' demo tune help status top upstreams drain cache keyval explain certs log slow metrics config lint fmt'
            case ${COMP_WORDS[1]} in
                status | top | upstreams | drain | cache | keyval | explain | certs | log | slow | metrics | config | lint | fmt)
                    words=$(tidegate "${COMP_WORDS[1]}" --help 2>/dev/null | grep -oE -- '--[a-z-]+')
                    ;;
            esac
            mapfile -t COMPREPLY < <(compgen -W "$words" -- "$word")
            ;;
    esac
}
complete -F _tidegate tidegate
