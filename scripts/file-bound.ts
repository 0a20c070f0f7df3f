/**
 * Imported before each test file (test.ts). Node's time limit ends a test, but not its file: what a test has left behind keeps the process,
 * and a run would wait for it until somebody ends the run.
 */
import { isMainThread } from 'node:worker_threads'

/** The longest file takes eight minutes on a slow machine. */
const FILE_MS_MAX = 20 * 60_000

if (isMainThread) {
  setTimeout(() => {
    console.error(`${process.argv[1] ?? ''} has not ended in ${FILE_MS_MAX / 60_000} minutes. It is kept by: ${process.getActiveResourcesInfo().join(', ')}`)
    process.exit(1)
  }, FILE_MS_MAX).unref()
}
