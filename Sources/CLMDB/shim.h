// The system's LMDB (Debian: liblmdb-dev), as QueueStore sees it.
#include <lmdb.h>
