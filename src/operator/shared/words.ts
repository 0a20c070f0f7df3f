/** Sentences that several operations say. */

export const INCOMPLETE = 'The time limit was over before the page was full: not everything was searched. The next page goes on from there.'
