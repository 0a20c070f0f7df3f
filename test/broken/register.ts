/**
 * `node --import ./test/broken/register.ts …` with ONCEWAY_BREAK=name (or several, with commas): loads src/ with one
 * mechanism taken out, as breaks.ts says. The sources themselves know nothing of it, so that a build cannot be broken
 * by its environment. A patch whose text does not stand in its file exactly once ends the process: a break that breaks
 * nothing would prove nothing.
 */
import { registerHooks } from 'node:module'
import { breakNamed } from './breaks.ts'
import type { Patch } from './breaks.ts'

const name = process.env.ONCEWAY_BREAK
if (name === undefined || name === '') throw new Error('ONCEWAY_BREAK names no break')
/** The embedded store works on a thread that loads its modules anew: broken like the rest. */
const ITS_THREAD: Patch = {
  file: 'store/sqlite/worker-client.ts',
  find: 'execArgv: []',
  replace: `execArgv: ['--import', ${JSON.stringify(import.meta.url)}]`
}
const patches = [...name.split(',').flatMap((each) => breakNamed(each).patches), ITS_THREAD]

registerHooks({
  load: (url, context, nextLoad) => {
    const loaded = nextLoad(url, context)
    const mine = patches.filter(({ file }) => url === new URL(`../../src/${file}`, import.meta.url).href)
    if (mine.length === 0) return loaded
    return { ...loaded, source: mine.reduce(patched, textOf(loaded.source)) }
  }
})

function patched (source: string, { file, find, replace }: Patch): string {
  const parts = source.split(find)
  if (parts.length !== 2) throw new Error(`${name}: the text to break stands ${parts.length - 1} times in src/${file}:\n${find}`)
  return parts.join(replace)
}

function textOf (source: unknown): string {
  if (typeof source === 'string') return source
  if (source instanceof Uint8Array) return Buffer.from(source).toString()
  throw new Error('a module without a source cannot be broken')
}
