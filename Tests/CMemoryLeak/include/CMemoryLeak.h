// CMemoryLeak is preloaded into the broker by its path and called by nobody: see CMemoryLeak.c.
