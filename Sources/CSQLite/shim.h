// The system's SQLite (Debian: libsqlite3-dev). Swift cannot call functions with variable
// arguments: that becomes an inline function here, and nothing else. No logic lives in this header.
#include <sqlite3.h>

// The end of a connection leaves the write-ahead log as it is.
static inline int sqlite_leave_log(sqlite3 *database) {
    return sqlite3_db_config(database, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, (int *)0);
}
