import type { Sql } from 'postgres';

/** Everything that makes up the schema, one line each and sorted, from the catalogue: pg_dump may be missing. */
export async function dumpSchema(sql: Sql): Promise<string> {
  const rows = await sql<{ line: string }[]>`
    WITH tables AS (
      SELECT c.oid, c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
      WHERE n.nspname = 'holdfast' AND c.relkind IN ('r', 'p'))
    SELECT 'column ' || t.relname || '.' || a.attname || ' ' || format_type(a.atttypid, a.atttypmod)
        || CASE WHEN a.attnotnull THEN ' not null' ELSE '' END
        || CASE WHEN a.attidentity <> '' THEN ' identity ' || a.attidentity::text ELSE '' END
        || coalesce(' default ' || pg_get_expr(d.adbin, d.adrelid), '') AS line
      FROM tables t JOIN pg_attribute a ON a.attrelid = t.oid AND a.attnum > 0 AND NOT a.attisdropped
      LEFT JOIN pg_attrdef d ON d.adrelid = t.oid AND d.adnum = a.attnum
    UNION ALL
    SELECT 'table ' || t.relname || coalesce(' ' || array_to_string(c.reloptions, ','), '') FROM tables t JOIN pg_class c USING (oid)
    UNION ALL
    -- From Postgres 18 on NOT NULL is a constraint as well (contype n); the columns say it already.
    SELECT 'constraint ' || t.relname || '.' || k.conname || ' ' || pg_get_constraintdef(k.oid)
      FROM tables t JOIN pg_constraint k ON k.conrelid = t.oid WHERE k.contype <> 'n'
    UNION ALL
    SELECT 'index ' || pg_get_indexdef(i.indexrelid) FROM tables t JOIN pg_index i ON i.indrelid = t.oid
    UNION ALL
    SELECT 'trigger ' || pg_get_triggerdef(g.oid) FROM tables t JOIN pg_trigger g ON g.tgrelid = t.oid AND NOT g.tgisinternal
    UNION ALL
    SELECT 'function ' || p.proname || ' ' || md5(p.prosrc) FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace
      WHERE n.nspname = 'holdfast'
    UNION ALL
    SELECT 'grant ' || privilege_type || ' on ' || table_name || ' to ' || grantee
      FROM information_schema.role_table_grants WHERE table_schema = 'holdfast' AND grantee = 'holdfast_app'`;
  // A user of that name has the schema in the search path, and then it is not printed. Sorted here, because the order of texts depends on the server's locale.
  const lines = rows.map((row) => row.line.replaceAll(/\s+/g, ' ').replaceAll('holdfast.', '')).sort();
  return `${lines.join('\n')}\n`;
}
