/** The fault table's rows of the door to the inbox, and the breaks that they name. */
import type { Break } from './breaks.ts'
import type { FaultRow } from './rows.ts'

const ACCEPTING = 'gateway/inbox/accept.ts'

export const DOOR_ROWS: readonly FaultRow[] = [
  {
    fault: 'gateway killed',
    moment: 'between a message that was asked for (`async: allowed`) and the settle of its record',
    seen: 'as the message is delivered',
    record: 'claimed, then indeterminate; the message stands',
    client: 'connection error; every retry gets the 202',
    test: ['gateway/inbox/respond-async.test.ts', 'died behind the message and before its record'],
    breaks: 'record-knows-best'
  },
  {
    fault: 'a message outlives its record',
    moment: 'the key comes again, without asking for the inbox',
    seen: 'as the message is delivered',
    record: 'none, or claimed and settled as accepted',
    client: 'the same 202',
    test: ['gateway/inbox/respond-async.test.ts', 'a message that has outlived its record is found before anything is sent'],
    breaks: 'inbox-passed-by'
  },
  {
    fault: 'reply of a commit lost',
    moment: 'acceptance',
    seen: 'as the message is delivered',
    record: 'claimed until the store says what there is',
    client: '503, and the retry finds the message',
    test: ['gateway/inbox/respond-async.test.ts', 'an acceptance in doubt is made again until the store says what there is'],
    breaks: 'doubtful-acceptance-freed'
  }
]

export const DOOR_BREAKS: readonly Break[] = [
  {
    name: 'record-knows-best',
    does: 'believes the record where only the inbox knows of the message',
    breaks: ['I8'],
    patches: [{
      file: ACCEPTING,
      find: "return message !== null && compareMessage(keyed, keyed, message) === 'same' ? accepted(keyed, [keyed]) : outcome",
      replace: 'return outcome'
    }]
  },
  {
    name: 'inbox-passed-by',
    does: 'sends without a look into the inbox',
    breaks: ['I1'],
    patches: [{
      file: 'gateway/inbox/accept-claimed.ts',
      find: "return message === null ? null : taken(keyed, { kind: 'seen', message })",
      replace: 'return null'
    }]
  },
  {
    name: 'doubtful-acceptance-freed',
    does: 'frees the key of a message that may have been accepted',
    breaks: ['I1', 'I8'],
    patches: [{ file: 'gateway/inbox/accept-claimed.ts', find: 'inDoubt ||= mayHaveCome(error)', replace: 'inDoubt = false' }]
  }
]
