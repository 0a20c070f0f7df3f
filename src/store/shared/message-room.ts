/** Which due messages fit the limit on bytes, for drivers that choose in code. */
import type { TakeMessages } from '../../ports/inbox.ts'

/** `due`: longest due first. */
export function fitting<Message extends { readonly bytes: number }> (
  due: readonly Message[],
  room: TakeMessages['room']
): readonly Message[] {
  if (room === undefined) return due
  let left = room.bytes
  const end = due.findIndex(({ bytes }, index) => {
    left -= bytes
    return left < 0 && !(index === 0 && room.one)
  })
  return end === -1 ? due : due.slice(0, end)
}
