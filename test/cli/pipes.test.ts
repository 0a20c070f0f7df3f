/** Commands whose readers stop reading, as `head` does: a real pipe, and more lines than fit into one. */
import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { test } from 'node:test'
import { promisify } from 'node:util'
import { openSqlite } from '../../src/store/sqlite/store.ts'
import { MAIN } from '../harness/process-gateway.ts'
import { directory, fileIn, leave, named } from './world.ts'

const RECORDS = 1_500

/** What bash prints of `script`, in which $ONCEWAY is the command line. */
async function bash (script: string): Promise<string> {
  const { stdout } = await promisify(execFile)('bash', ['-c', script], { env: { ...process.env, ONCEWAY: `${process.execPath} ${MAIN}` } })
  return stdout
}

test('a command whose reader stops ends quietly, with its own exit code, and has done its work', async (t) => {
  const dataDir = directory(t)
  const store = await openSqlite({ dataDir, exclusive: true })
  t.after(async () => { await store.close() })
  const tokens = await Promise.all(Array.from({ length: RECORDS }, (_, index) => leave(store, `order-${index}`, 'indeterminate')))
  const [first] = tokens
  assert.ok(first)
  for (const json of ['', '--json']) {
    const [line, codes, ...more] = (await bash(
      `{ $ONCEWAY records list ${json} --limit ${RECORDS + 1} --data-dir ${dataDir} 2>&3 | head -1; echo "\${PIPESTATUS[0]}"; } 3>&1`
    )).trim().split('\n')
    assert.deepEqual([codes, more], ['0', []], `${String(line)}\n${more.slice(0, 5).join('\n')}`)
  }
  assert.equal(await bash(`$ONCEWAY records resolve ${named(first).join(' ')} --status 201 --who ada --why 'in the ledger' --data-dir ${dataDir} 2>&1 | true; echo "\${PIPESTATUS[0]}"`), '0\n')
  assert.equal((await store.look(first.id))?.state, 'completed')
})

test('mistakes that nobody reads to their end are exit 2 all the same', async (t) => {
  const file = fileIn(t, 'onceway.yaml', `version: 1\n${Array.from({ length: 4_000 }, (_, index) => `member${index}: 1`).join('\n')}\n`)
  const [line, code, ...more] = (await bash(`$ONCEWAY check --config ${file} 2>&1 | head -1; echo "\${PIPESTATUS[0]}"`)).trim().split('\n')
  assert.match(line ?? '', /is not known$|is missing$/)
  assert.deepEqual([code, more], ['2', []])
})

test('output that cannot be written for another reason is a failure, and says so', async () => {
  const said = await bash('{ $ONCEWAY version > /dev/full; echo "$?"; } 2>&1')
  assert.equal(said, 'onceway: the output could not be written (ENOSPC).\n1\n')
})
