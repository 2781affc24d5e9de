/** A day, in milliseconds: what waiting periods and policies are counted in. */
export const MS_PER_DAY = 86_400_000
