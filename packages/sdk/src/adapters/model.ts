/** What an adapter accepts as a model. */

/** A model, of any fields. */
export interface AnyModel {
  pick(...fields: never[]): unknown
  encryptPartial(row: never): Promise<unknown>
}
