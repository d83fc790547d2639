import type { RowList } from 'postgres';
import type { HotSql } from './types.ts';

/** What a row's column may hold on its way into a statement. */
export type ColumnValue = string | number | boolean | Buffer | readonly string[] | null;

/** Statements that take rows of the named columns: one text, whose rows come as parameters or, if several, as JSON. */
export interface RowStatement<Column extends string> {
  /** @param first - the parameters before the rows' own, `$1` and on */
  run(
    sql: HotSql,
    first: readonly (readonly string[])[],
    rows: readonly Readonly<Record<Column, ColumnValue>>[],
  ): PromiseLike<RowList<Record<string, unknown>[]>>;
}

/**
 * A statement over given rows. Postgres plans and starts it once, however many rows there are, and it is one commit.
 * A single row travels as plain parameters: reading JSON would cost the server a tenth of the statement.
 *
 * @param columns - name → Postgres type
 * @param firsts - number of parameters before the rows'
 * @param text - the statement; it finds its rows in FROM under the alias `c`, as the source that it is given
 */
export function rowStatement<Column extends string>(
  columns: Readonly<Record<Column, string>>,
  firsts: number,
  text: (rows: string) => string,
): RowStatement<Column> {
  const names = Object.keys(columns) as Column[];
  const typed = names.map((name, index) => `$${firsts + 1 + index}::${columns[name]} AS ${name}`);
  const one = text(`(SELECT ${typed.join(', ')}) c`);
  const declared = names.map((name) => `${name} ${columns[name]}`);
  // As text, because postgres.js would write a json parameter as JSON once more.
  // The condition is always true, and makes the planner count on few rows: it then looks each of them up by its key,
  // also in a plan that was made while the table was empty. It would read the whole table otherwise, however large by now.
  const many = text(`(
    SELECT * FROM json_to_recordset($${firsts + 1}::text::json) AS j(${declared.join(', ')})
    WHERE j.${names[0]} = (SELECT j.${names[0]})) c`);
  return {
    run(sql, first, rows) {
      const [row] = rows;
      if (rows.length === 1 && row !== undefined) {
        return sql.unsafe(one, [...first, ...names.map((name) => row[name])] as never[], { prepare: true });
      }
      const json = JSON.stringify(rows, asJson);
      return sql.unsafe(many, [...first, json] as never[], { prepare: true });
    },
  };
}

/** A Buffer as the text form of bytea. `value` is what toJSON made of it. */
function asJson(this: Record<string, unknown>, key: string, value: unknown): unknown {
  const own = this[key];
  return own instanceof Uint8Array ? `\\x${Buffer.from(own).toString('hex')}` : value;
}
