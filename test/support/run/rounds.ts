// How many rounds a repeated test makes: few in `npm test` and `npm run test:all`, all of them in `npm run test:slow`.

/** Whether this is `npm run test:slow`. */
export const IS_SLOW_RUN = process.env.EAAS_TEST_SLOW === '1'

/**
 * Chooses the size of a test that repeats itself.
 * @param few enough to find a fault that is not rare, for `npm test`
 * @param many the number for `npm run test:slow`
 */
export function rounds(few: number, many: number): number {
  return IS_SLOW_RUN ? many : few
}
