/**
 * What a form changes. It is read when it is shown and when it is saved, and only members that differ are sent: another
 * person may have changed the others meanwhile. Pure.
 */
export function findChanges<Fields extends object>(shown: Partial<Fields>, saved: Fields): Partial<Fields> {
  const isChanged = ([name, value]: [string, unknown]) =>
    JSON.stringify(value) !== JSON.stringify(shown[name as keyof Fields])
  return Object.fromEntries(Object.entries(saved).filter(isChanged)) as Partial<Fields>
}
