/** The commands of a page, and what it shows of their output. */
import assert from 'node:assert/strict'

/** A command of a page, and what the page shows of its output. */
export interface Step { readonly script: string, readonly output: string }

export function walkOf (page: string): Step[] {
  return Array.from(page.matchAll(/```sh\n((?:(?!```)[\s\S])*)```\n```text\n([\s\S]*?)```/g), ([, script = '', output = '']) => ({
    script,
    output
  }))
}

/** Every line that the page shows is printed, in this order. */
export function assertShown ({ script, output }: Step, printed: string): void {
  const lines = plainLines(printed)
  let at = 0
  for (const line of plainLines(output)) {
    const found = lines.indexOf(line, at)
    assert.ok(found >= 0, `${script}prints no line\n${line}\nbehind line ${at} of\n${lines.join('\n')}`)
    at = found + 1
  }
}

/** Without what differs from run to run: ids, owners, times, directories, names of processes. */
function plainLines (text: string): string[] {
  return text.trimEnd().split(/\r?\n/).map((line) => line
    .replaceAll(/[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}/g, 'UUID')
    .replaceAll(/(?<![\w-])[\w-]{43}(?![\w-])/g, 'ID')
    .replaceAll(/\b[0-9a-f]{32}\b/g, 'OWNER')
    .replaceAll(/\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z/g, 'TIME')
    .replace(/under [^\s,:]+/, 'under DIRECTORY')
    .replace(/^(gateway: +).*/, '$1NAME')
    .replace(/^(delivery: .*, )\d+ ms$/, '$1DURATION')
    .trimEnd())
}
