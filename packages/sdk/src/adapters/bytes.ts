/** The types of bytes, of which a model takes more kinds than it returns: see `bytes()`. */
import type { Binary, Bytes } from '../input.js'

/** What a model may declare for a column whose rows have this type. */
export type Declared<T> = T extends unknown ? (Bytes extends T ? T | Binary : T) : never

/** What is read of a field for which a model declares this type. */
export type Read<T> = Binary extends T ? Exclude<T, Binary> | Bytes : T
