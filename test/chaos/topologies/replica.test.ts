/** Seconds of it. `npm run chaos -- --topology replica` does more. */
import { describe } from 'node:test'
import { needs } from '../../harness/needs.ts'
import { seconds } from './seconds.ts'

describe('under faults, topology replica', needs('postgres tools', 'own redis'), () => {
  seconds('replica', [
    'postgres-promote', 'postgres-link-cut', 'gateway-kill', 'postgres-forget-cancelled', 'postgres-standby-stall',
    'postgres-standby-stall-promote'
  ])
})
