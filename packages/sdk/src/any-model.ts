/** What functions accept that take any model. */

/** A model, of any fields. */
export interface AnyModel {
  pick(...fields: never[]): unknown
  encryptPartial(row: never): Promise<unknown>
}
