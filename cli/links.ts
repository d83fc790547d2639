import { type EffectId, effectIdText } from '../effects/effect.ts';

/** The list of stuck effects in Temporal's UI. Closed and reset runs keep their attributes, so only running ones count. */
export function stuckLink(uiUrl: string, namespace: string): string {
  const query = '`EffectStatus`="UNKNOWN" AND `ExecutionStatus`="Running"';
  return `${uiUrl}/namespaces/${encodeURIComponent(namespace)}/workflows?query=${encodeURIComponent(query)}`;
}

/** The reconciliation of one effect in Temporal's UI, its newest run. */
export function effectLink(uiUrl: string, namespace: string, id: EffectId): string {
  return `${uiUrl}/namespaces/${encodeURIComponent(namespace)}/workflows/${effectIdText(id)}`;
}
