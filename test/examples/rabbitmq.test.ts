import { describe, test } from 'node:test'
import { needs } from '../harness/needs.ts'
import { playedRight } from './played.ts'

describe('the example rabbitmq', needs('rabbitmq-server', 'epmd'), () => {
  test('whatever the relay is killed at, every message of the queue is executed once', async (t) => playedRight(t, 'rabbitmq'))
})
