import { describe, test } from 'node:test'
import { needs } from '../harness/needs.ts'
import { playedRight } from './played.ts'

describe('the example outbox', needs('postgres', 'redis'), () => {
  test('whatever the relay is killed at, every event of the outbox is executed once', async (t) => playedRight(t, 'outbox'))
})
