/** A real Chromium for pages. It ends with the test that started it. */
import { join } from 'node:path'
import type { TestContext } from 'node:test'
import { chromium } from 'playwright-core'
import type { Browser } from 'playwright-core'
import { findTool } from './binaries.ts'

/** Beyond it nothing is slow but stuck. */
export const BUSY_MS = 120_000

/** `flags`: of its command line. */
export async function startBrowser (t: Pick<TestContext, 'after'>, flags: readonly string[] = []): Promise<Browser> {
  const found = findTool('chromium')
  if (found.kind !== 'binaries') throw new Error('no chromium')
  const browser = await chromium.launch({
    executablePath: join(found.directory, 'chromium'),
    args: [...process.getuid?.() === 0 ? ['--no-sandbox'] : [], ...flags],
    timeout: BUSY_MS
  })
  t.after(async () => { await browser.close() })
  return browser
}
