// The pages of the tool about passwords, and about what is taken from another broker.

extension HelpPages {
    static let password = """
        martlet password set NAME [--user USER] [--right RIGHT]... [--expires TIME]
        martlet password list [--user USER] [--limit N]
        martlet password expire NAME [--expires TIME]
        martlet password revoke NAME

        MQTT clients log in with a user name and a password on listeners with ?passwords=APP. set
        reads the password from the first line of standard input; the broker keeps its argon2id
        hash. Each change of a password ends its connections, that of its expiry too. One that is
        set again keeps its user, device, rights and expiry where no option names others; revoke
        it before to forget them.

        set
          --file FILE          read the password from a file that others may not read
          --hash HASH          set a hash instead, as it is in a password file of Mosquitto
          --user USER          who logs in; the user of the same name if absent
          --device NAME        the only client id that may use it
          --right RIGHT        a right, in place of the rights of the app; may be repeated
          --expires TIME       refuse it after this time, such as 90d; as before if absent

        list
          --user USER          the passwords of a user
          --limit N            show at most N

        expire
          --expires TIME       refuse it after this time; never if absent

          --json               one JSON object per password
        \(administration)
        """

    static let `import` = """
        martlet import mosquitto --config FILE [--store FILE] [--output FILE] [--dry-run]

        Takes the users, passwords, access list, pre-shared keys, retained messages and sessions
        with their queues of a Mosquitto into an app, and writes its listeners and limits as a
        configuration of Martlet. A line of the report tells of each thing whether it is taken,
        changed or NOT TAKEN, and why; with a line NOT TAKEN the exit code is 6. What restricts
        clients in Mosquitto and has no counterpart takes its listener, or all users, out of the
        import. The files are read and not changed. An import that is repeated leaves alone
        passwords that are the same and retained messages of others, keeps the device and the
        expiry of changed passwords, goes on with a session that it had begun, and leaves one that
        it had completed.

          --config FILE        mosquitto.conf, which names the other files
          --store FILE         mosquitto.db, or the database of the plugin persist-sqlite, if it is
                               not where the configuration says
          --output FILE        write the configuration to this file, which must be new
          --dry-run            change and write nothing; the broker need not run
          --json               one JSON object per line of the report
        \(administration)
        """
}
