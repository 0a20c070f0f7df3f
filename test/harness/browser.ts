/**
 * A real Chromium for pages. It ends with the test that started it. The headless shell has the same engine and no windows, menus and
 * profiles: it opens a page in half the time.
 */
import { join } from 'node:path'
import type { TestContext } from 'node:test'
import { chromium } from 'playwright-core'
import type { Browser } from 'playwright-core'
import { findTool } from './binaries.ts'

const CHROMIUM = 'chromium-headless-shell'
/** Beyond it nothing is slow but stuck. */
export const BUSY_MS = 120_000

/** `flags`: of its command line. */
export async function startBrowser (t: Pick<TestContext, 'after'>, flags: readonly string[] = []): Promise<Browser> {
  const found = findTool(CHROMIUM)
  if (found.kind !== 'binaries') throw new Error(`no ${CHROMIUM}`)
  const browser = await chromium.launch({
    executablePath: join(found.directory, CHROMIUM),
    args: [...process.getuid?.() === 0 ? ['--no-sandbox'] : [], ...flags],
    timeout: BUSY_MS
  })
  t.after(async () => { await browser.close() })
  return browser
}
