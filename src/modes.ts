/** The modes that a route may have, as the gateway is given them (gateway/modes.ts). */
import { inboxMode } from './gateway/accepting.ts'
import { dropMode } from './gateway/dropping.ts'
import type { Modes } from './gateway/modes.ts'

export const MODES: Modes = { drop: dropMode, inbox: inboxMode }
