/** Seconds of it. `npm run chaos -- --topology pgbouncer` does more. */
import { describe } from 'node:test'
import { needs } from '../../harness/needs.ts'
import { seconds } from './seconds.ts'

describe('under faults, topology pgbouncer', needs('own postgres', 'pgbouncer', 'own redis'), () => {
  seconds('pgbouncer', ['pgbouncer-kill', 'postgres-kill', 'pgbouncer-stall', 'postgres-link-cut'])
})
