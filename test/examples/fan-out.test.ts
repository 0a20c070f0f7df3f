import { test } from 'node:test'
import { playedRight } from './played.ts'

test(
  'the example fan-out: each of two consumers executes every event once, though one is down for a while and the relay is killed',
  async (t) => playedRight(t, 'fan-out')
)
