/** The modes of routes, as the gateway needs them (gateway/execution/modes.ts). */
import { inboxMode } from '../gateway/inbox/accept.ts'
import { dropMode } from '../gateway/drop/drop.ts'
import type { Modes } from '../gateway/execution/modes.ts'

export const MODES: Modes = { drop: dropMode, inbox: inboxMode }
