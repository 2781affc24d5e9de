/**
 * The same type, which editors and declarations print by its members, and not by the types that it is made
 * from. Public types use it within `[R] extends [unknown] ? … : never`: as long as `R` is not known, in an
 * application's generic function, they are printed by their names, since such a type has no members yet.
 */
export type Show<T> = { [K in keyof T]: T[K] } & {}
