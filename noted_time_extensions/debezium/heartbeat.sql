WITH activity AS MATERIALIZED (
    SELECT pid, application_name, state, xact_start FROM pg_stat_activity
    WHERE datname = current_database() AND pid <> pg_backend_pid()
    AND coalesce(backend_type, '') NOT IN ('autovacuum worker', 'walsender')
), oldest AS MATERIALIZED (
    SELECT coalesce(min(xact_start), now()) AS start,
    (array_agg(pid ORDER BY xact_start) FILTER (WHERE xact_start IS NOT NULL))[1] AS pid,
    (array_agg(application_name ORDER BY xact_start) FILTER (WHERE xact_start IS NOT NULL))[1]
    AS application, count(*) FILTER (WHERE state = 'disabled') AS hidden FROM activity
)
SELECT CASE
WHEN NOT pg_has_role('pg_read_all_stats', 'USAGE')
THEN ('noted-time: grant pg_read_all_stats to ' || current_user)::int::text
WHEN pg_is_in_recovery()
THEN ('noted-time: run this on the primary, not on ' || current_database())::int::text
WHEN hidden > 0
THEN ('noted-time: set track_activities = on in all sessions, it is off in ' || hidden)::int::text
WHEN EXISTS (SELECT FROM pg_prepared_xacts AS prepared
WHERE prepared.database = current_database() AND oldest.start IS NOT NULL)
THEN NULL
ELSE pg_logical_emit_message(true, 'noted-time', json_build_object(
    'start', floor(extract(epoch FROM start) * 1000000)::bigint,
    'pid', pid, 'application', application)::text)::text
END FROM oldest
