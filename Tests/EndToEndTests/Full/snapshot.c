// Holds a snapshot of a store, as a copying tool would: until SIGTERM, or until it is killed.

#include <lmdb.h>
#include <signal.h>
#include <stdio.h>

static int fail(const char *call, int code) {
    printf("%s: %s\n", call, mdb_strerror(code));
    return 1;
}

int main(int count, char **arguments) {
    if (count != 2) return 2;
    sigset_t signals;
    sigemptyset(&signals);
    sigaddset(&signals, SIGTERM);
    sigprocmask(SIG_BLOCK, &signals, NULL);

    MDB_env *environment;
    MDB_txn *snapshot;
    int code = mdb_env_create(&environment);
    if (code) return fail("mdb_env_create", code);
    if ((code = mdb_env_open(environment, arguments[1], MDB_RDONLY, 0)))
        return fail("mdb_env_open", code);
    if ((code = mdb_txn_begin(environment, NULL, MDB_RDONLY, &snapshot)))
        return fail("mdb_txn_begin", code);
    printf("holding\n");
    fflush(stdout);

    int signal;
    sigwait(&signals, &signal);
    mdb_txn_abort(snapshot);
    mdb_env_close(environment);
    return 0;
}
