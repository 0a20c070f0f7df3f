/** The contestants that others are compared with. */

export const BASELINE = 'plain'
/** What deliveries are compared with. */
export const OUTBOX = 'outbox'
export const FLOOR_REPLY = 'floor-reply'
export const FLOOR_DURABLE = 'floor-durable'
export const FLOOR_EMBEDDED = 'floor-embedded'
export const FLOOR_DURABLE_INBOX = 'floor-durable-inbox'
/** What one would take from npm. It has Redis to write to, and no disk. */
export const NODE_IDEMPOTENCY = 'node-idempotency'
/** With all that it is recommended with. */
export const ONCEWAY = 'onceway'
/** Behind the name of one of ours from the checkout that `--before` names. */
export const BEFORE = '-before'
