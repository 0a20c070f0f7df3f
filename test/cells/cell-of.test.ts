/** `onceway cell-of`, and mistakes in the file of cells. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { fileIn, say } from '../cli/world.ts'

const CELLS = `by: tenant
header: X-Tenant
cells:
  a: { slots: "0-249,500-999", gateways: [10.0.0.1:8080, 10.0.0.2:8080] }
  b: { slots: 250-499, gateways: [] }
assigned: { Acme: b }
`

test('it says where a value goes, and why', async (t) => {
  const file = ['--config', fileIn(t, 'cells.yaml', CELLS)]
  assert.deepEqual(await say(['cell-of', 'acme', ...file]), { exitCode: 0, out: 'b  (assigned, closed)', err: '' })
  assert.deepEqual(await say(['cell-of', '', ...file]), { exitCode: 0, out: 'a  (slot 0, 10.0.0.1:8080 10.0.0.2:8080)', err: '' })
  assert.match((await say(['cell-of', '--print', 'nginx', ...file])).out, /^map \$http_x_tenant \$onceway_text \{/)
  assert.match(
    (await say(['cell-of', '--print', 'haproxy', ...file])).out,
    /use_backend onceway_cell_b if \{ var\(txn\.onceway_slot\) -m int 250:499 \}/
  )
  assert.match((await say(['cell-of', '--print', 'haproxy-lua'])).err, /The file of cells cells\.yaml cannot be read \(ENOENT\)/)
})

test('wrong usage is refused', async (t) => {
  const file = ['--config', fileIn(t, 'cells.yaml', CELLS)]
  for (const args of [[], ['a', '--print', 'nginx'], ['--print', 'apache']]) {
    assert.equal((await say(['cell-of', ...args, ...file])).exitCode, 2)
  }
})

test('every mistake of the file has its line', async (t) => {
  const file = fileIn(t, 'cells.yaml', `by: keys
header: X_Key
listen: here
cells:
  a: { slots: 0-499, gateways: [10.0.0.1] }
  b: { slots: 400-998, gateway: [] }
  C: 1
assigned: { acme: a }
routes: []
`)
  const { exitCode, err } = await say(['cell-of', 'k', '--config', file])
  assert.equal(exitCode, 2)
  const lines = err.split('\n').map((line) => line.slice(file.length + 1))
  assert.deepEqual(lines, [
    '9:1: routes: is not known',
    '1:5: by: must be one of key, tenant, host',
    '5:33: cells.a.gateways[0]: must be HOST:PORT',
    '6:24: cells.b.gateway: is not known; did you mean gateways?',
    '6:15: cells.b.slots: slot 400 belongs to a already',
    '6:3: cells.b.gateways: must be a list of HOST:PORT. An empty list closes the cell',
    '7:3: cells.C: is no name: it must match ^[a-z][a-z0-9_-]{0,31}$',
    '7:6: cells.C: must have slots and gateways',
    '4:1: cells: 500 of the slots 0-999 have no cell, 500 is the first',
    '2:9: header: must be a field name of letters, digits and -',
    '3:9: listen: must be PORT or HOST:PORT',
    '8:1: assigned: is for by: tenant and by: host'
  ])
})
