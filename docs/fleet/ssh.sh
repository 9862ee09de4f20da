#!/bin/sh
# A fleet of hosts reached by ssh: sh ssh.sh THIS-HOST HOST...
# Each has `bigiron` on its PATH, of the same version. Ctrl-C ends all of it.
set -eu
scheduler=tls://$1:${PORT:-8786} && shift
there=${THERE:-.bigiron-fleet} # in the home folder of each
[ -d certificates ] || bigiron fleet init certificates
started=
listens=$(mktemp)
trap 'rm -f "$listens"; kill $started 2>/dev/null' EXIT
trap 'exit 1' INT TERM
bigiron fleet scheduler --listen "$scheduler" --certificates certificates >"$listens" &
started=$!
until [ -s "$listens" ]; do # it prints its address when it can be reached
    kill -0 "$started" || exit
    sleep 1
done
for host; do
    tar -C certificates -c . | ssh "$host" "umask 077; mkdir -p $there && tar -C $there -x"
    # -tt: what runs there ends with this connection
    ssh -tt "$host" bigiron fleet worker "$scheduler" --certificates "$there" </dev/null &
    started="$started $!"
done
echo "bigiron run ... --fleet $scheduler --certificates $PWD/certificates"
wait
